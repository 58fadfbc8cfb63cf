# Sourced by what fetches from Debian's archive.

# The mirror that the machine itself uses, if it names one.
mirror()
{
	local uri
	uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
		awk '/\/debian\/?$/ && !n++') || uri=
	uri=${uri:-http://deb.debian.org/debian}
	echo "${uri%/}"
}
