"""Seeds against seeds: when does `umsicht compare` call a winner?"""
