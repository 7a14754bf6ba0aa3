"""Studies of trust in trained policies: reproducibility of training, and fidelity of deployed forms."""
