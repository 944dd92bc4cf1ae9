"""A short campaign of kills; `python -m tests.unit.node.kills --count 1000` is the long one."""

from tests.unit.node.kills import Campaign


def test_nothing_torn_is_published_wherever_a_copy_is_killed(tmp_path):
    campaign = Campaign(tmp_path, seed=20261121)
    campaign.run(25)
    assert campaign.kills > 5
