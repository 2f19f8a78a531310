"""What is computed: problems with their references, tolerances and inputs."""
