"""Playing one episode, ``sysgym run`` and ``sysgym plot``, and what can be written of it."""
