#include "server/net/activation.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "server/export/endpoint.h"
#include "server/net/control_socket.h"
#include "server/net/listener.h"
#include "server/net/service.h"

static int take_one(struct service *s, int fd, const char *name, struct activation *a, char *err,
		    size_t errlen)
{
	bool control = !strcmp(name, "control");

	if (!control && strcmp(name, "listen") && strcmp(name, "unix")) {
		snprintf(err, errlen,
			 "systemd passes a socket called '%.80s'; expected listen, unix or "
			 "control (FileDescriptorName=)",
			 name);
		return -EINVAL;
	}
	if (sd_is_socket(fd, control ? AF_UNIX : AF_UNSPEC, SOCK_STREAM, 1) <= 0) {
		snprintf(err, errlen, "what systemd passes as '%s' is no %s that listens", name,
			 control ? "Unix stream socket" : "stream socket");
		return -EINVAL;
	}
	if (control && a->control) {
		snprintf(err, errlen, "systemd passes two sockets called 'control'; expected one");
		return -EINVAL;
	}
	a->control |= control;
	a->listen |= !strcmp(name, "listen");
	a->unix_sockets |= !strcmp(name, "unix");
	return control ? control_socket_passed(s, fd, &s->control, err, errlen) :
			 listen_passed(s, fd, err, errlen);
}

/* No words of theirs would reach the sockets that come instead of them, such as that these want TLS. */
static int check_words(const struct service *s, char *const *texts, bool unix_sockets, char *err,
		       size_t errlen)
{
	struct endpoint e;

	for (; texts && *texts; texts++) {
		if (unix_sockets ? endpoint_parse_unix(*texts, &e, err, errlen) :
				   endpoint_parse_listen(*texts, &e, err, errlen))
			return -EINVAL;
		if (!e.readonly && (!e.own_tls || e.tls == s->server.params.tls))
			continue;
		snprintf(err, errlen, "%s: systemd passes other sockets instead of '%.100s', and tls= "
			 "and readonly would not hold for them; expected none of these words",
			 unix_sockets ? "unix" : "listen", *texts);
		return -EINVAL;
	}
	return 0;
}

int activation_take(struct service *s, struct activation *a, char *err, size_t errlen)
{
	char **names = NULL;
	int n = sd_listen_fds_with_names(1, &names), res = 0;

	*a = (struct activation){ .listen = false };
	if (n < 0)
		snprintf(err, errlen, "cannot take the sockets that systemd passes: %s",
			 strerror(-n));
	for (int i = 0; i < n; i++) {
		if (!res)
			res = take_one(s, SD_LISTEN_FDS_START + i, names[i], a, err, errlen);
		free(names[i]);
	}
	free(names);
	if (!res && a->listen)
		res = check_words(s, s->server.params.listen, false, err, errlen);
	if (!res && a->unix_sockets)
		res = check_words(s, s->server.params.unix_sockets, true, err, errlen);
	return n < 0 ? n : res;
}
