/* What events call of libzmq: SYMBOL(name) for zmq_<name>. All of it is looked up when the library
 * is loaded, which fails where one is missing. Include this file with SYMBOL defined; it is
 * undefined at the end. */
SYMBOL(ctx_new)
SYMBOL(ctx_term)
SYMBOL(socket)
SYMBOL(close)
SYMBOL(setsockopt)
SYMBOL(getsockopt)
SYMBOL(bind)
SYMBOL(connect)
SYMBOL(send)
SYMBOL(recv)
SYMBOL(poll)
SYMBOL(strerror)

#undef SYMBOL
