"""What keeps an attempt from starting or going on, each by the sights that show it.

Pure: a scene in, an obstacle or nothing out. It must not know what is done about one.
"""
