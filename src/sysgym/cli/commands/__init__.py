"""Commands whose code is a module each."""
