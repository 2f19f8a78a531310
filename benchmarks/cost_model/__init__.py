"""How well do cost models foretell times?"""
