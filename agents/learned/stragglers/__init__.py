"""Learned straggler agents: what is trained on the jobs of the train split and played on others."""
