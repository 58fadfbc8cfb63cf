# The words before the cursor as they were typed, and the one at it: bash itself cuts them at = and : as well.
# Sets words and cur, which are the caller's.
_lift_words()
{
	local line=${COMP_LINE:0:COMP_POINT}
	read -ra words <<<"$line"
	cur=
	if [[ $line != *[[:space:]] ]]; then
		cur=${words[-1]}
		unset 'words[-1]'
	fi
}

# _lift_offer LINES: those that begin with $cur, without what bash takes for a word before them.
_lift_offer()
{
	local breaks=${COMP_WORDBREAKS//[^=:]} cut= line
	[[ ! $breaks ]] || cut=${cur%"${cur##*[$breaks]}"}
	while IFS= read -r line; do
		[[ ! $line || $line != "$cur"* ]] || COMPREPLY+=("${line#"$cut"}")
	done <<<"$1"
	[[ ${COMPREPLY[0]-} != *[=.:] ]] || compopt -o nospace 2>/dev/null
}

# _lift_compgen ACTION WORD: files, users, groups.
_lift_compgen()
{
	local line
	while IFS= read -r line; do
		COMPREPLY+=("$line")
	done < <(compgen "$1" -- "$2")
	[[ $1 != -f ]] || compopt -o filenames 2>/dev/null
}

# _lift_values ROWS NAME PREFIX: the values of a setting that has a list of them.
_lift_values()
{
	local values
	while read -ra values; do
		[[ ${values[0]-} != "$2" ]] || _lift_offer "$(printf "%s\n" "${values[@]/#/$3}" | sed 1d)"
	done <<<"$1"
}
