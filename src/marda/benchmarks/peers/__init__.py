"""What marda is compared with: systems that run here, and figures that others published."""
