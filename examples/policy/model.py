"""A server of the model: `/act` chooses an action for each state of a JSON list, `/weights` replaces the weights."""

import itertools
import json
import threading

import torch
from policy import policy, unpacked
from serving import serve

MODEL, LOCK, PUSHED = policy(), threading.Lock(), itertools.count(1)


def answer(path, data):
    """The actions, or a word that the weights are replaced."""
    with LOCK, torch.no_grad():
        if path == "/weights":
            MODEL.load_state_dict(unpacked(data))
            print("weights", next(PUSHED), flush=True)
            return b"ok"
        logits = MODEL(torch.tensor(json.loads(data)))
        return json.dumps(torch.distributions.Categorical(logits=logits).sample().tolist()).encode()


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve(answer)
