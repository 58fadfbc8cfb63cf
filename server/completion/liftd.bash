# bash completion for liftd.

@file server/completion/common.sh@

_liftd_options='
@words options liftd@
'
_liftd_schedulers='
@words policies@
'
_liftd_rows='
@words rows server@
@words rows export@
@words rows image@
@words rows queue@
@words rows fault@
'
# Settings of schedulers, as SCHEDULER.NAME.
_liftd_policy_rows='
@words dotted@
'
_liftd_client_rows='
@words rows client@
'

# _liftd_setting STEM: what -o takes; STEM stands before it in the word.
_liftd_setting()
{
	local stem=$1 text=${cur#"$1"} rows=$_liftd_rows$_liftd_policy_rows i match
	for ((i = 1; i + 1 < ${#words[@]}; i++)); do
		# The plain names are those of the scheduler.
		[[ ${words[i]} != -@(s|-scheduler) ]] ||
			rows+=$(sed -n "s/^${words[i + 1]//[^a-z]}\.//p" <<<"$_liftd_policy_rows")
	done
	case $text in
	client:*=*)
		match=${text%%=*}
		_lift_values "$_liftd_client_rows" "${match##*.}" "$stem$match=" ;;
	client:*.*)
		_lift_offer "$(sed -n "s|^\([a-z_]\+\).*|$stem${text%.*}.\1=|p" <<<"$_liftd_client_rows")" ;;
	*=*)
		_lift_values "$rows" "${text%%=*}" "$stem${text%%=*}=" ;;
	*)
		_lift_offer "$(sed -n "s/^\([a-z_.]\+\).*/$stem\1=/p" <<<"$rows")"$'\n'"${stem}client:" ;;
	esac
}

_liftd()
{
	local words cur option arg name stem= want=
	COMPREPLY=()
	_lift_words
	option=${words[-1]}
	if [[ $cur == --*=* ]]; then
		option=${cur%%=*}
		stem=$option=
	fi
	while read -r name arg; do
		[[ ! $name || $name != "$option" ]] || want=$arg
	done <<<"$_liftd_options"
	case $option/$want in
	-s/* | --scheduler/*) _lift_offer "$(sed "s|.|$stem&|" <<<"$_liftd_schedulers")" ;;
	*/NAME=VALUE) _liftd_setting "$stem" ;;
	*/LEVEL) _lift_values "$_liftd_rows" log "$stem" ;;
	*/FILE | */PATH) _lift_compgen -f "${cur#"$stem"}" ;;
	*/USER) _lift_compgen -u "${cur#"$stem"}" ;;
	*/GROUP) _lift_compgen -g "${cur#"$stem"}" ;;
	*/)
		if [[ $cur == -* ]]; then
			_lift_offer "$(sed 's/ .*//' <<<"$_liftd_options")"
		else
			_lift_compgen -f "$cur"
			_lift_offer null:
		fi ;;
	esac
}

complete -F _liftd liftd
