"""Do manual pages and programs say the same?

  manuals.py BUILD CONTROL_SOCKET     a server with an export listens at the socket, and a client is attached
"""
import glob, os, re, shutil, subprocess, sys

from nbdraw import Control

build = sys.argv[1]
call = Control(sys.argv[2]).call
top = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')


def page(name):
    """The text of a page as man gets it, without the marks for fonts; paragraphs are set apart by an empty line."""
    with open(f'{build}/man/{name}') as f:
        text = f.read()
    text = re.sub(r'\\f[BIRP]|\\&', '', text).replace('\\-', '-').replace('\\(ti', '~')
    text = re.sub(r'^\.(P|LP)$', '', text, flags=re.M)
    return '\n'.join(line for line in text.split('\n') if not re.match(r"[.'](?!SH|SS)", line))


def section(text, heading):
    """What stands below it, up to the next of its rank."""
    rank = 'SH' if f'\n.SH {heading}\n' in text else 'SS|SH'
    return re.split(rf'\n\.(?:{rank}) ', text.split(f' {heading}\n', 1)[1])[0]


def run(*words):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def same(what, program, manual):
    """Two sets, or dictionaries."""
    if program == manual:
        return
    odd = {k for k in set(program) ^ set(manual)} or {k for k in program if program[k] != manual[k]}
    sys.exit(f'{what}: program and manual differ: ' + '; '.join(
        f'{k}: {program[k] if isinstance(program, dict) and k in program else k in program} / '
        f'{manual[k] if isinstance(manual, dict) and k in manual else k in manual}' for k in sorted(odd)))


OPTION = r'(?:-(\w)(?: \S+)?, +)?--([a-z-]+)(?: (\S+))?'


def check_options(program):
    text = run(f'{build}/{program}', '--help').stdout
    in_help = {m[2]: (m[1], m[3]) for m in re.finditer(rf'^  (?:    )?{OPTION}(?=  |$)', text, re.M)}
    manual = section(page(f'{program}.8'), 'OPTIONS')
    in_manual = {m[2]: (m[1], m[3]) for m in re.finditer(rf'^{OPTION}$', manual, re.M)}
    assert len(in_help) > 4, text
    same(f'options of {program}', in_help, in_manual)
    # Each is taken, with one argument more if it wants one: it is for the program, not for getopt, to complain.
    for name, (letter, arg) in in_help.items():
        for option in [f'--{name}'] + ([f'-{letter}'] if letter else []):
            words = [option, 'x'] if arg else [option]
            r = run(f'{build}/{program}', *(['--check'] if program == 'liftd' else []), *words)
            if re.search(r"unrecognized|unknown option|^liftd: see liftd --help$|requires an|doesn't allow", r.stdout, re.M):
                sys.exit(f'{program} {" ".join(words)}: {r.stdout}')


def check_rows():
    text = run(f'{build}/liftd', '--help').stdout
    in_help = {m[1]: (m[2], m[3] or '') for m in
               re.finditer(r'^  (?:client:MATCH\.)?([a-z_]+) \((.*)\)(?:, default (.*))?$', text, re.M)}
    manual = page('liftd.conf.5')
    found = re.findall(r'^([a-z_]+)\n((?:(?!Allowed: ).+\n)+)Allowed: (.*?)(?:; default ([^;\n]*?))?(; may be repeated)?'
                       r'(; at run time)?\.$', manual, re.M)
    in_manual = {f[0]: (f[2], f[3]) for f in found if f[0] != 'include'}
    assert len(in_help) > 40 and len(in_manual) < len(found) == manual.count('\nAllowed: '), (len(found), in_manual)
    same('settings', in_help, in_manual)
    runtime = {f[0]: bool(f[5]) for f in found}
    tunables = call('export.get', name='')['tunables']
    for name, t in tunables.items():
        name = name.split('.')[-1]
        assert runtime[name] == t['runtime'], f'{name}: at run time or not?'
    # The page of schedulers has those of schedulers, of queues and of clients.
    schedulers = page('liftd-schedulers.7')
    for name, t in tunables.items():
        if '.' in name or name in ('queue_depth', 'quantum', 'max_queue_age'):
            assert f'\n{name.split(".")[-1]}\n' in schedulers, f'{name} is not in liftd-schedulers(7)'


def check_commands():
    text = run(f'{build}/liftctl', '--help').stdout
    in_help = set(re.findall(r'^  ([a-z]+(?: \S+)*?)  ?(?:\*| )? ', text.split('commands')[1].split('options:')[0], re.M))
    manual = page('liftctl.8')
    in_manual = set(re.findall(r'^([a-z]+(?: \S+)*)\n(?=\S)', section(manual, 'COMMANDS'), re.M))
    in_manual = {c for c in in_manual if c in in_help or re.match(r'[a-z]+( [A-Z\[]\S*| set)*$', c)}
    assert len(in_help) > 10
    same('commands', in_help, in_manual)

    with open(f'{top}/server/control/commands.c') as f:
        methods = set(re.findall(r'\.method = "(.*?)"', f.read()))
    protocol = section(manual, 'PROTOCOL')
    words = {m[1]: set(re.findall(r'\w+', m[2])) for m in
             re.finditer(r'^([a-z]+\.[a-z]+) \{.*\}.*\n((?:.+\n)+)', protocol, re.M)}
    same('methods', methods, set(words))
    results = {
        'server.info': call('server.info'),
        'export.list': call('export.list')[0],
        'export.get': call('export.get', name='', help=True),
        'client.list': call('client.list')[0],
    }
    for method, result in results.items():
        assert set(result) <= words[method], (method, set(result) - words[method])
    one = next(iter(results['export.get']['tunables'].values()))
    assert set(one) <= words['export.get'], set(one) - words['export.get']
    stats = call('stats.get')
    for h in stats['histograms'].values():
        assert set(h) <= words['stats.get'], set(h) - words['stats.get']
    in_manual = set(re.findall(r'^([a-z_]+)(?:, of the server(?: only)?)?\n(?=\S)', section(manual, 'Counters of stats.get'),
                               re.M))
    same('counters', {k for k in stats if k not in ('histograms', 'exports')}, in_manual)


def check_others():
    """In liftd-migration(7): are there such options, theirs and ours?"""
    with open(f'{top}/server/man/liftd-migration.7.scd') as f:
        text = f.read().replace('\\', '')
    helps = {'QEMU-NBD': ('qemu-nbd', '--help'), 'NBDKIT': ('nbdkit', '--help')}
    ours = run(f'{build}/liftd', '--help').stdout
    n = 0
    for heading, body in re.findall(r'^# (\S+)\n(.*?)(?=^# )', text, re.M | re.S):
        rows = re.findall(r'^\|\S*\s+(.*)\n:\S*\s+(.*)$', body, re.M)
        for their, our in rows:
            for option in re.findall(r'(?<!\w)\*(--?[a-z][a-z-]*)\*', our):
                n += 1
                assert re.search(rf'{option}\b', ours) or 'nbd' in our or 'losetup' in our, f'liftd has no {option}'
            for setting in re.findall(r'\*([a-z]+_[a-z_]+|cache|aio|size|rotational)\*', our):
                assert setting == 'fault_' or f'\n  {setting} (' in ours, f'liftd has no setting {setting}'
            if heading in helps and shutil.which(helps[heading][0]):
                theirs = run(*helps[heading]).stdout
                for option in re.findall(r'(?<!\S)--?[A-Za-z][a-z-]*', their):
                    n += 1
                    assert re.search(rf'(?<![\w-]){option}', theirs), f'{helps[heading][0]} has no {option}'
    assert n > 20


def check_references():
    pages = {os.path.basename(p)[:-4] for p in glob.glob(f'{top}/*/man/*.scd')}
    built = set(os.listdir(f'{build}/man'))
    assert len(built) >= 6 and built <= pages, built
    for name in built:
        for ref in re.findall(r'\b((?:nbdkit-)?lift[\w.-]*)\((\d)\)', page(name)):
            assert '.'.join(ref) in pages, f'{name}: there is no {ref[0]}({ref[1]})'


check_options('liftd')
check_options('liftctl')
check_rows()
check_commands()
check_others()
check_references()
