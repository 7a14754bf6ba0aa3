"""One network for every host of a congestion world: what it learns on one network it can do on another."""
