"""Fit a linear model by data-parallel SGD with PyTorch Lightning; print a digest of the parameters."""

import argparse
import hashlib
import os

import lightning
import torch


class Model(lightning.LightningModule):
    """A linear model that records its losses."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 1)
        self.losses = []

    def training_step(self, batch, _index):
        inputs, targets = batch
        loss = torch.nn.functional.mse_loss(self.linear(inputs), targets)
        self.losses.append(loss.item())
        if self.global_step % 10 == 0:
            print(f"step {self.global_step} loss {loss.item():.5f}", flush=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--devices", type=int, default=1)
    options = parser.parse_args()

    random = torch.Generator().manual_seed(0)
    inputs = torch.rand(512, 16, generator=random)
    data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
    trainer = lightning.Trainer(
        num_nodes=options.nodes,
        devices=options.devices,
        strategy="ddp",
        max_steps=options.steps,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Model()
    trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=128))

    values = torch.cat([p.detach().view(-1) for p in model.parameters()]).cpu().numpy().tobytes()
    print(f"rank {trainer.global_rank} of {trainer.world_size} on {os.uname().nodename}")
    digest = hashlib.sha256(values).hexdigest()[:12]
    print(f"loss {model.losses[0]:.5f} -> {model.losses[-1]:.5f}, parameters {digest}", flush=True)


if __name__ == "__main__":
    main()
