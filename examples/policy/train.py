"""REINFORCE with torch.distributed: the servers choose the actions, the judge rewards them, new weights go to the servers."""

import argparse
import json
import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist
from policy import FEATURES, ask, packed, policy, unpacked
from torch.nn.parallel import DistributedDataParallel

BATCH, EVERY = 64, 10


def main(options):
    """Train, from the last checkpoint if there is one, until the last step or the signal before the end of the walltime."""
    asked = []
    signal.signal(signal.SIGUSR1, lambda *_: asked.append(True))
    dist.init_process_group("gloo")
    rank, servers = dist.get_rank(), [f"{host}:{options.port}" for host in options.servers.split(",")]
    model, saved, first = policy(), Path(options.checkpoint), 1
    if saved.exists():
        kept = unpacked(saved.read_bytes())
        model.load_state_dict(kept["model"])
        first = kept["step"] + 1
        print(f"continues after step {first - 1}", flush=True)
    ranks = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(ranks.parameters(), 0.02)
    torch.manual_seed(first * dist.get_world_size() + rank)
    for step in range(first, options.steps + 1):
        if rank == 0 and (step == first or step % EVERY == 0):
            for server in servers:
                ask(server, "/weights", packed(model.state_dict()))
        dist.barrier()
        states = torch.randn(BATCH, FEATURES)
        actions = json.loads(ask(servers[rank % len(servers)], "/act", json.dumps(states.tolist()).encode()))
        pairs = list(zip(states.tolist(), actions, strict=True))
        found = torch.tensor(json.loads(ask(options.judge, "/rewards", json.dumps(pairs).encode())))
        chosen = torch.distributions.Categorical(logits=ranks(states)).log_prob(torch.tensor(actions))
        optimizer.zero_grad()
        (-(found - found.mean()) * chosen).mean().backward()
        optimizer.step()
        mean, ends = found.mean(), torch.tensor(float(bool(asked)))
        dist.all_reduce(mean)
        dist.all_reduce(ends)
        if rank == 0 and (ends or step % EVERY == 0 or step == options.steps):
            print(f"step {step} mean reward {mean / dist.get_world_size():.2f}", flush=True)
            new = saved.with_suffix(".new")
            new.write_bytes(packed({"model": model.state_dict(), "step": step}))
            new.replace(saved)
        if ends:
            print(f"saved after step {step}", flush=True)
            break
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--judge", required=True, help="its host:port")
    parser.add_argument("--servers", required=True, help="hosts of the model's servers, with commas")
    parser.add_argument("--port", type=int, required=True, help="where each of them listens")
    parser.add_argument("--steps", type=int, default=os.environ.get("POLICY_STEPS", "100"))
    parser.add_argument("--checkpoint", default="policy.pt")
    torch.set_num_threads(1)
    main(parser.parse_args())
