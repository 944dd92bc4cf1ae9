"""Commands about what is to be submitted: specs, their keys, plans and scripts."""
