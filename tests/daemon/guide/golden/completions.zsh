#compdef tool
# Completions of tool for zsh: tool completions zsh > ~/.zfunc/_tool, with ~/.zfunc in fpath
_tool() {
  local -a commands
  if (( CURRENT == 2 )); then
    commands=('run:Tune; it'\''s done [soon]: wait' 'history:List runs' 'show:Show a run')
    _describe command commands
    _arguments
    return
  fi
  shift words; (( CURRENT-- ))
  case $words[1] in
    run)
      _arguments \
        '*:RECIPE:_files' \
        '*-s[Start from this]:KNOB=VALUE: ' \
        '*--set[Start from this]:KNOB=VALUE: ' \
        '*--history[History]:FILE:_files' \
        '*--color[.dots and '\''quotes'\'']:WHEN:(auto never)' ;;
    history)
      case $words[2] in
        prune) shift words; (( CURRENT-- )); _arguments \
          '*--dry-run[Only say what]'; return ;;
      esac
      commands=('prune:Remove')
      (( CURRENT == 2 )) && _describe command commands
      _arguments \
        '*--json[Print JSON]' ;;
    show)
      _arguments \
        '*:ID:{compadd last $(tool history --limit 50 2>/dev/null | grep -o "^r-[0-9a-f-]*")}' ;;
  esac
}
_tool "$@"
