"""Memory of a simulation: record types, access from compiled code, and the arrays of one world."""
