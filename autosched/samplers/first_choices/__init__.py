"""What is tried before anything is measured?"""
