"""sysgym: a Gymnasium suite for learned systems control."""
