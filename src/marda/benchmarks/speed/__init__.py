"""Speed and memory against reference implementations, side by side in one run."""
