# Sourced by tests that need certificates: an authority, a server and clients, made by certtool, valid for a day.

# pki_authority DIR NAME: DIR/ca-cert.pem, ca-key.pem
pki_authority()
{
	mkdir -p "$1"
	printf 'cn = %s\nca\ncert_signing_key\nexpiration_days = 1\n' "$2" >"$1/ca.info"
	certtool --generate-privkey --key-type ecdsa --outfile "$1/ca-key.pem" 2>/dev/null
	certtool --generate-self-signed --load-privkey "$1/ca-key.pem" --template "$1/ca.info" \
		--outfile "$1/ca-cert.pem" 2>/dev/null
}

# pki_certificate AUTHORITY DIR server|client NAME [LINE...]: DIR/KIND-cert.pem, KIND-key.pem and ca-cert.pem;
# LINEs of certtool's template take the place of "expires in a day".
pki_certificate()
{
	local ca=$1 dir=$2 kind=$3 name=$4
	shift 4
	[[ $# -gt 0 ]] || set -- "expiration_days = 1"
	mkdir -p "$dir"
	{
		printf 'cn = %s\ntls_www_%s\nsigning_key\nencryption_key\n' "$name" "$kind"
		[[ $kind != server ]] || printf 'dns_name = localhost\nip_address = 127.0.0.1\n'
		printf '%s\n' "$@"
	} >"$dir/$kind.info"
	certtool --generate-privkey --key-type ecdsa --outfile "$dir/$kind-key.pem" 2>/dev/null
	chmod 600 "$dir/$kind-key.pem"
	certtool --generate-certificate --load-ca-certificate "$ca/ca-cert.pem" --load-ca-privkey "$ca/ca-key.pem" \
		--load-privkey "$dir/$kind-key.pem" --template "$dir/$kind.info" --outfile "$dir/$kind-cert.pem" 2>/dev/null
	[[ $ca -ef $dir ]] || cp "$ca/ca-cert.pem" "$dir/"
}

# pki_revoke AUTHORITY CERTIFICATE FILE: the authority's list of what it has revoked, with this certificate alone
pki_revoke()
{
	printf 'crl_next_update = 1\ncrl_number = 1\n' >"$1/crl.info"
	certtool --generate-crl --load-ca-certificate "$1/ca-cert.pem" --load-ca-privkey "$1/ca-key.pem" \
		--load-certificate "$2" --template "$1/crl.info" --outfile "$3" 2>/dev/null
}
