# bash completion for liftctl: it asks the running server for names.

@file server/completion/common.sh@

_liftctl_options='
@words options liftctl@
'
_liftctl_patterns='
@words patterns@
help [COMMAND]
'
# For when no server answers.
_liftctl_rows='
@words rows export@
@words rows image@
@words rows queue@
@words dotted@
'
_liftctl_client_rows='
@words rows client@
'

# _liftctl_ask COMMAND...: the result, as the server that the words before the cursor mean gives it.
_liftctl_ask()
{
	"${words[0]/#\~/$HOME}" "${socket[@]}" --timeout 1 --json "$@" 2>/dev/null
}

# _liftctl_strings KEY: its values in the JSON text that is read, one a line.
_liftctl_strings()
{
	grep -o "\"$1\": *\"[^\"\\\\]*\"" | sed 's/.*: *"\(.*\)"/\1/' | sort -u
}

# _liftctl_names EXPORT [RUNTIME]: its settings, or those that can be set.
_liftctl_names()
{
	local names
	names=$(_liftctl_ask show "$1" | grep -o "\"[a-z_.]*\": *{[^{}]*\"runtime\": *${2:-[a-z]*}" |
		sed 's/^"\([a-z_.]*\)".*/\1/')
	echo "${names:-$(sed 's/ .*//' <<<"$_liftctl_rows")}"
}

# _liftctl_settings: NAME=VALUE, for a client or an export.
_liftctl_settings()
{
	local rows=$_liftctl_rows names name=${cur%%=*}
	[[ ${call[0]} != client ]] || rows=$_liftctl_client_rows
	if [[ $cur == *=* ]]; then
		[[ $rows == *$'\n'"$name "* ]] || name=$(sed -n "s/^\([a-z]*\.$name\) .*/\1/p;T;q" <<<"$rows")
		_lift_values "$rows" "$name" "${cur%%=*}="
		return
	fi
	names=$(sed 's/ .*//' <<<"$rows")
	[[ ${call[0]} == client ]] || names=$(_liftctl_names "${call[1]}" true; echo scheduler)
	_lift_offer "$(sed '/./!d; s/$/=/' <<<"$names" | sort -u)"
}

# _liftctl_word WORD: what a pattern's word stands for.
_liftctl_word()
{
	case $1 in
	[a-z]*) _lift_offer "$1" ;;
	EXPORT | '[EXPORT]') _lift_offer "$(_liftctl_ask list | _liftctl_strings name)" ;;
	ID) _lift_offer "$(_liftctl_ask clients | _liftctl_strings id)" ;;
	NAME=VALUE...) _liftctl_settings ;;
	NAME) _lift_offer "$(_liftctl_names "${call[1]}")" ;;
	=*) _lift_values "$_liftctl_rows" "${1#=}" '' ;;
	'[COMMAND]') _lift_offer "$(sed 's/ .*//' <<<"$_liftctl_patterns" | sort -u)" ;;
	esac
}

# _liftctl_next PATTERN...: its word at the cursor, if the words before it fit. Sets next.
_liftctl_next()
{
	local i pattern=("$@")
	next=
	for ((i = 0; i < ${#call[@]}; i++)); do
		case ${pattern[i]-} in
		NAME=VALUE...)
			next=${pattern[i]}
			return ;;
		'') return ;;
		[a-z]*) [[ ${call[i]} == "${pattern[i]}" ]] || return 0 ;;
		esac
	done
	next=${pattern[i]-}
}

_liftctl()
{
	local words cur i pattern next seen= socket=() call=()
	COMPREPLY=()
	_lift_words
	for ((i = 1; i < ${#words[@]}; i++)); do
		case ${words[i]} in
		--socket) socket=(--socket "${words[++i]-}") ;;
		--socket=*) socket=("${words[i]}") ;;
		--timeout | --interval | --count | -n) ((++i)) ;;
		-*) ;;
		*) call+=("${words[i]}") ;;
		esac
	done
	if [[ $cur == --socket=* ]]; then
		_lift_compgen -f "${cur#*=}"
	elif ((i > ${#words[@]})); then
		[[ ${words[-1]} != --socket ]] || _lift_compgen -f "$cur"
	elif [[ $cur == -* && ${#call[@]} -eq 0 ]]; then
		_lift_offer "$(sed 's/ .*//' <<<"$_liftctl_options")"
	else
		while read -ra pattern; do
			[[ ${#pattern[@]} -gt 0 ]] || continue
			_liftctl_next "${pattern[@]}"
			# Several patterns can have the same word here.
			[[ ! $next || " $seen " == *" $next "* ]] || _liftctl_word "$next"
			seen+=" $next"
		done <<<"$_liftctl_patterns"
	fi
}

complete -F _liftctl liftctl
