"""One policy network shared by all hosts, which transfers between networks of different sizes."""
