/* What the server calls of libmicrohttpd: SYMBOL(name) for MHD_<name>. All of it is looked up when
 * the library is loaded, which fails where one is missing. Include this file with SYMBOL defined;
 * it is undefined at the end. */
SYMBOL(start_daemon)
SYMBOL(add_connection)
SYMBOL(stop_daemon)
SYMBOL(is_feature_supported)
SYMBOL(get_version)

/* connections */
SYMBOL(get_connection_info)
SYMBOL(get_connection_values)
SYMBOL(get_connection_values_n)
SYMBOL(set_connection_option)
SYMBOL(suspend_connection)
SYMBOL(resume_connection)

/* responses */
SYMBOL(create_response_from_buffer)
SYMBOL(create_response_from_callback)
SYMBOL(create_response_from_fd64)
SYMBOL(add_response_header)
SYMBOL(queue_response)
SYMBOL(destroy_response)

#undef SYMBOL
