"""Single episodes, ``sysgym run`` and ``sysgym plot``, and their pictures, videos and traces."""
