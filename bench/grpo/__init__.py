"""Does the last stage raise what it is rewarded for, on problems it has not seen?"""
