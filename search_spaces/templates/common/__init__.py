"""What several templates sample alike: cache hints, the order of tiles, the limits of a launch."""
