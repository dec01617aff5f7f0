/* The files of endpoints, in the order of docs/serve.md: ENDPOINTS(name) for mc_endpoints_<name>.
 * Include this file with ENDPOINTS defined; it is undefined at the end. */
ENDPOINTS(models)
ENDPOINTS(own)
ENDPOINTS(health)
ENDPOINTS(page)
#undef ENDPOINTS
