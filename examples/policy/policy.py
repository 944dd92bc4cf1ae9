"""The policy that is trained and served: which of five actions to choose, by four numbers."""

import io
import urllib.request

import torch

FEATURES, ACTIONS = 4, 5


def policy():
    """A small network; its outputs are the logits of the actions."""
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(FEATURES, 32), torch.nn.Tanh(), torch.nn.Linear(32, ACTIONS))


def packed(weights):
    """A state_dict as bytes."""
    file = io.BytesIO()
    torch.save(weights, file)
    return file.getvalue()


def unpacked(data):
    """The state_dict of such bytes; nothing but tensors is accepted."""
    return torch.load(io.BytesIO(data), weights_only=True)


def ask(address, path, data):
    """POST bytes to a server; its answer. A server that is silent for 10 s ends the training."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", data, timeout=10) as answer:
            return answer.read()
    except OSError as error:
        raise SystemExit(f"RuntimeError: no answer from http://{address}{path}: {error}") from error
