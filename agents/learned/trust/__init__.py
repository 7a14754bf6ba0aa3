"""How far a trained policy can be trusted: to come out the same again, and to stay itself once deployed."""
