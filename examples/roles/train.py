"""REINFORCE with five actions, whose rewards come from the judge; each process trains a policy of its own."""

import argparse
import math
import random
import urllib.request

ACTIONS, STEPS, RATE = 5, 400, 0.2


def reward(judge, action):
    """The judge's reward of an action."""
    with urllib.request.urlopen(f"http://{judge}/reward?action={action}", timeout=30) as answer:
        return float(answer.read())


def train(judge, seed):
    """Train a policy; returns the probability of each action."""
    random.seed(seed)
    logits, mean = [0.0] * ACTIONS, 0.0
    for step in range(1, STEPS + 1):
        weights = [math.exp(logit) for logit in logits]
        chances = [weight / sum(weights) for weight in weights]
        action = random.choices(range(ACTIONS), chances)[0]
        found = reward(judge, action)
        mean += (found - mean) / step
        for other, chance in enumerate(chances):
            logits[other] += RATE * (found - mean) * ((other == action) - chance)
        if step % 100 == 0:
            print(f"step {step} mean reward {mean:.2f} best action {chances.index(max(chances))}", flush=True)
    return chances


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--judge", required=True)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    train(options.judge, options.seed)
