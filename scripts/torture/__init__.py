"""`python -m scripts.torture`: what was tried to break marda, and what happened, as tables."""
