"""Search for constants of `adaptive_target`, `adaptive_swift` and `tuned_swift` in shared networks."""
