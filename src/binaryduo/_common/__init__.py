"""What several rooms need and no user does: files, progress bars, memory, float64 checks."""
