"""Fit a linear model by data-parallel SGD with DeepSpeed; print a digest of the parameters."""

import argparse
import hashlib
import os

import deepspeed
import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    # Otherwise the first run on CPUs compiles an operator, which takes minutes, while all ranks wait for its lock.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed("nccl" if torch.cuda.is_available() else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()

    random = torch.Generator().manual_seed(0)
    inputs = torch.rand(512, 16, generator=random)
    targets = inputs.sum(1, keepdim=True)
    inputs, targets = inputs[rank::world], targets[rank::world]
    torch.manual_seed(rank)  # replicas differ at first: deepspeed.initialize makes them equal
    model = torch.nn.Linear(16, 1)
    configuration = {
        "train_micro_batch_size_per_gpu": len(inputs),
        "optimizer": {"type": "SGD", "params": {"lr": 0.05}},
        "gradient_clipping": 0.0,
        "zero_allow_untested_optimizer": True,
    }
    engine, _, _, _ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=configuration
    )

    losses = []
    for step in range(options.steps):
        loss = torch.nn.functional.mse_loss(engine(inputs), targets)
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
        if step % 10 == 0:
            print(f"step {step} loss {losses[-1]:.5f}", flush=True)

    values = torch.cat([p.detach().view(-1) for p in engine.module.parameters()]).cpu().numpy().tobytes()
    print(f"rank {rank} of {world} on {os.uname().nodename}")
    print(
        f"loss {losses[0]:.5f} -> {losses[-1]:.5f}, parameters {hashlib.sha256(values).hexdigest()[:12]}",
        flush=True,
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
