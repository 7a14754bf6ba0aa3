"""Loss detection and recovery of a sender: by time (RACK-TLP) or by duplicate ACKs."""
