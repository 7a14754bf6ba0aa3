"""Simulators and the Linux-kernel emulation, which are independent of Gymnasium."""
