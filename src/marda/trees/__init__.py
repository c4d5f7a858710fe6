"""Decision trees as arrays, that files and graphs can hold: a forest, and boosted trees."""
