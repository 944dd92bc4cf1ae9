"""A training in small: a number of steps, each done once over as many runs as it takes, saved when told.

    python3 steps.py STEPS SECONDS_A_STEP CHECKPOINT [LAST]

The first run goes on after step LAST only once there is a checkpoint.

It starts a data loader, as trainings do: a child that ends by the signal unless nobody sends it one.
"""

import os
import signal
import sys
import time
from pathlib import Path


def main() -> None:
    steps, pause, checkpoint = int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
    rank, restart = os.environ["DLRUN_RANK"], os.environ["DLRUN_RESTART"]
    last = int(sys.argv[4]) if restart == "0" and len(sys.argv) > 4 else steps
    told = []
    loader = os.fork()
    if loader == 0:
        while os.getppid() != 1:
            time.sleep(0.1)
        os._exit(0)
    signal.signal(signal.SIGUSR1, lambda *_: told.append(time.time()))
    step, loss = 0, 1.0
    if checkpoint.exists():
        first, second = checkpoint.read_text().split()
        step, loss = int(first), float(second)
    print(
        "run", restart, os.environ["DLRUN_RUN_ID"], os.environ["MASTER_PORT"], os.environ.get("WANDB_RUN_ID")
    )
    while step < steps and not told:
        time.sleep(pause)
        if step == last and not checkpoint.exists():
            continue
        step += 1
        loss = loss * 0.99 + 0.001 * (step % 7)
        print("step", step)
    time.sleep(1)  # a second signal would come now
    alive = os.waitpid(loader, os.WNOHANG) == (0, 0)
    print("told", len(told), "loader", "alive" if alive else "dead")
    if rank == "0":
        new = checkpoint.with_suffix(".new")
        new.write_text(f"{step} {loss!r}")
        new.rename(checkpoint)
    if step == steps:
        print("loss", repr(loss))


if __name__ == "__main__":
    main()
