return create()
