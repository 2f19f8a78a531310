"""How good and how fast is the search?"""
