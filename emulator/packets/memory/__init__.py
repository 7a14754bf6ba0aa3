"""The simulation's memory: record types, access from compiled code, and the arrays of one world."""
