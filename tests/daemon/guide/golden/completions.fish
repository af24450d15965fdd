# Completions of tool for fish: tool completions fish | source
complete -c tool -f
complete -c tool -n '__fish_use_subcommand' -a run -d 'Tune; it\'s done [soon]: wait'
complete -c tool -n '__fish_use_subcommand' -a history -d 'List runs'
complete -c tool -n '__fish_use_subcommand' -a show -d 'Show a run'
complete -c tool -n '__fish_seen_subcommand_from run' -s s -l set -x -d 'Start from this'
complete -c tool -n '__fish_seen_subcommand_from run' -l history -r -F -d 'History'
complete -c tool -n '__fish_seen_subcommand_from run' -l color -x -a 'auto never' -d '.dots and \'quotes\''
complete -c tool -n '__fish_seen_subcommand_from run' -F
complete -c tool -n '__fish_seen_subcommand_from history' -a prune -d 'Remove'
complete -c tool -n '__fish_seen_subcommand_from history' -l json -d 'Print JSON'
complete -c tool -n '__fish_seen_subcommand_from history; and __fish_seen_subcommand_from prune' -l dry-run -d 'Only say what'
complete -c tool -n '__fish_seen_subcommand_from show' -a 'last (tool history --limit 50 2>/dev/null | grep -o "^r-[0-9a-f-]*")'
