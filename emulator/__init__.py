"""The worlds: simulators that move time forward and know nothing of Gymnasium."""
