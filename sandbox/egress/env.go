package egress

// Addr is where a command in a sandbox finds the proxy: the port that squid has made usual.
const Addr = "127.0.0.1:3128"

// Environment is what tells programs of the proxy. Git, Go, curl, pip, npm, cargo and apt need no more; curl reads http_proxy in
// lower case only, others in upper case only. Node's own fetch asks for permission (from 22.21 and 24 on). The virtual machine of
// Java knows properties only, and says on standard error that it was given some: that is why it is told only where Maven's
// repositories are open.
func (r Rules) Environment() []string {
	const url, local = "http://" + Addr, "localhost,127.0.0.1,::1"
	env := []string{
		"http_proxy=" + url, "https_proxy=" + url, "all_proxy=" + url, "no_proxy=" + local,
		"HTTP_PROXY=" + url, "HTTPS_PROXY=" + url, "ALL_PROXY=" + url, "NO_PROXY=" + local,
		"NODE_USE_ENV_PROXY=1",
	}
	if r.Has("maven") {
		env = append(env, "JAVA_TOOL_OPTIONS=-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=3128 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=3128")
	}
	return env
}
