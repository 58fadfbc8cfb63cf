# liftd: build, test, install.  `make help` lists the targets and variables.

VERSION = 0.1.0

BUILD  ?= build
PREFIX ?= /usr/local
CFLAGS ?= -O2 -g
SAN    ?=
WERROR ?=
# The folders whose sources make up the library: SRC_DIRS=sched builds and tests that layer alone.
SRC_DIRS ?= sched server conf plugin

ifeq ($(origin CC),default)
CC = gcc
endif

# A sanitizer build lives in a folder of its own, so that it never shares objects with the plain one.
comma := ,
san_dir = $(if $(filter address%,$(SAN)),asan,$(if $(filter thread,$(SAN)),tsan,$(subst $(comma),-,$(SAN))))
OUT := $(BUILD)$(if $(SAN),/$(san_dir))

# ---- libraries -------------------------------------------------------------------------------------------------

LIB_PKGS    := libevent libevent_pthreads liburing jansson libsystemd inih gnutls
PLUGIN_PKGS := nbdkit
CHECK_PKGS  := check
HELPER_PKGS := libnbd
JUDGE_PKGS  := gnutls

# What a build, or the tests, need and this machine lacks; a complaint only when something has to be compiled with it.
no_program = $(shell command -v $(1) >/dev/null || echo $(1))
no_package = $(shell for p in $(1); do pkg-config --exists $$p || echo $$p; done)
MISSING := $(strip $(call no_program,$(firstword $(CC))) $(call no_program,pkg-config))
ifeq ($(MISSING),)
MISSING       := $(strip $(call no_package,$(LIB_PKGS)))
TESTS_MISSING := $(strip $(call no_package,$(CHECK_PKGS) $(HELPER_PKGS)))
endif

ifeq ($(MISSING),)
LIB_CFLAGS := $(shell pkg-config --cflags $(LIB_PKGS))
LIB_LIBS   := $(shell pkg-config --libs $(LIB_PKGS))
ifeq ($(call no_package,$(PLUGIN_PKGS)),)
PLUGIN_CFLAGS := $(shell pkg-config --cflags $(PLUGIN_PKGS))
PLUGIN_LIBS   := $(shell pkg-config --libs liburing jansson)
# nbdkit looks for plugins in this place only; with a prefix that is no system's, it must be told.
NBDKIT_DIR    := $(shell pkg-config --variable=plugindir $(PLUGIN_PKGS))
PLUGIN_DIR    ?= $(if $(filter /usr /usr/local,$(PREFIX)),$(NBDKIT_DIR),$(shell pkg-config \
		 --define-variable=prefix=$(PREFIX) --variable=plugindir $(PLUGIN_PKGS)))
endif
ifeq ($(TESTS_MISSING),)
LIB_CFLAGS  += $(shell pkg-config --cflags $(CHECK_PKGS) $(HELPER_PKGS) $(JUDGE_PKGS))
CHECK_LIBS  := $(shell pkg-config --libs $(CHECK_PKGS))
HELPER_LIBS := $(shell pkg-config --libs $(HELPER_PKGS))
JUDGE_LIBS  := $(shell pkg-config --libs $(JUDGE_PKGS))
endif
endif

# ---- flags -----------------------------------------------------------------------------------------------------

WARN = -Wall -Wextra -Wshadow -Wstrict-prototypes $(if $(filter-out 0,$(WERROR)),-Werror)
SAN_FLAGS = $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
ALL_CPPFLAGS = -I. -D_GNU_SOURCE= -D_FILE_OFFSET_BITS=64 -DLIFTD_VERSION='"$(VERSION)"' $(LIB_CFLAGS) $(CPPFLAGS)
ALL_CFLAGS = -std=gnu11 -pthread $(WARN) $(CFLAGS) $(SAN_FLAGS)
ALL_LDFLAGS = -pthread -Wl,--as-needed $(SAN_FLAGS) $(LDFLAGS)

# ---- what there is to build ------------------------------------------------------------------------------------

# A program is built as soon as its main file exists.
main_liftd   := server/liftd.c
main_liftctl := server/ctl/liftctl.c
PROGRAMS := $(foreach p,liftd liftctl,$(if $(wildcard $(main_$(p))),$(p)))

# Used while building only: conf-sample writes liftd.conf from the rows, fill puts tables into manuals and completions.
main_conf-sample := server/liftd/sample.c
main_fill        := server/man/fill.c
TOOLS    := $(foreach t,conf-sample fill,$(if $(wildcard $(main_$(t))),$(t)))

# NAME.SECTION.scd is a manual page, in the folder man/ of what it describes. Without scdoc there are none.
MANUALS     := $(if $(call no_program,scdoc),,$(sort $(wildcard $(addsuffix /man/*.scd,conf sched server $(if $(wildcard plugin/*.c),plugin)))))
MAN_PAGES   := $(foreach m,$(MANUALS),$(OUT)/man/$(basename $(notdir $(m))))
COMPLETIONS := $(patsubst server/completion/%.bash,$(OUT)/completion/%,$(sort $(wildcard server/completion/*.bash)))
GENERATED   := $(OUT)/liftd.conf $(MAN_PAGES) $(COMPLETIONS)

SOURCES := $(sort $(shell for d in $(SRC_DIRS); do [ ! -d $$d ] || find $$d -name '*.c'; done))
main_plugin := plugin/lift.c
MAINS   := $(foreach p,$(PROGRAMS) $(TOOLS),$(main_$(p))) $(wildcard $(main_plugin))
LIB_SRC := $(filter-out $(MAINS),$(SOURCES))
LIB_OBJ := $(LIB_SRC:%.c=$(OUT)/obj/%.o)
LIB     := $(OUT)/liblift.a
SHARED  := $(OUT)/tests/libshared.a

# The plugin for nbdkit, where nbdkit's headers are: position-independent objects in a folder of their own.
PLUGIN     := $(if $(PLUGIN_DIR),$(if $(wildcard $(main_plugin)),$(OUT)/nbdkit-lift-plugin.so))
PLUGIN_SRC := $(filter sched/% server/store/% server/export/% server/control/% plugin/%,$(LIB_SRC))
PLUGIN_OBJ := $(if $(PLUGIN),$(PLUGIN_SRC:%.c=$(OUT)/pic/%.o) $(main_plugin:%.c=$(OUT)/pic/%.o))
PLUGIN_LIB := $(OUT)/pic/liblift.a

# tests/unit/test_NAME.c is a program; any other file there is code that unit tests share, in an archive of its own.
UNIT_ALL   := $(sort $(wildcard tests/unit/test_*.c))
UNIT_SRC   := $(if $(TESTS),$(filter $(TESTS:%=tests/unit/%.c),$(UNIT_ALL)),$(UNIT_ALL))
SHARED_OBJ := $(patsubst %.c,$(OUT)/obj/%.o,$(filter-out $(UNIT_ALL),$(sort $(wildcard tests/unit/*.c))))
HELPER_SRC := $(sort $(wildcard tests/helpers/*.c))
UNIT_BIN   := $(UNIT_SRC:tests/unit/%.c=$(OUT)/tests/%)
HELPER_BIN := $(HELPER_SRC:tests/helpers/%.c=$(OUT)/tests/%)
# The conformance program judges any server: it shares no code with liftd.
JUDGE_SRC  := $(sort $(wildcard tests/conformance/*.c))
JUDGE_BIN  := $(if $(JUDGE_SRC),$(OUT)/tests/conformance)
PROG_BIN   := $(PROGRAMS:%=$(OUT)/%)

# tests/fuzz/NAME.c is a fuzz target, but for what all of them are linked with; here each replays its corpus.
FUZZ_COMMON := tests/fuzz/check.c tests/fuzz/replay.c
FUZZ_SRC    := $(filter-out $(FUZZ_COMMON),$(sort $(wildcard tests/fuzz/*.c)))
FUZZ_OBJ    := $(patsubst %.c,$(OUT)/obj/%.o,$(FUZZ_COMMON) $(FUZZ_SRC))
FUZZ_BIN    := $(FUZZ_SRC:tests/fuzz/%.c=$(OUT)/tests/fuzz-%)
FUZZERS     := $(FUZZ_SRC:tests/fuzz/%.c=$(OUT)/fuzz-%)

TEST_OBJ := $(SHARED_OBJ) $(FUZZ_OBJ) $(UNIT_ALL:%.c=$(OUT)/obj/%.o) $(HELPER_SRC:%.c=$(OUT)/obj/%.o) $(JUDGE_SRC:%.c=$(OUT)/obj/%.o)
OBJ := $(LIB_OBJ) $(filter-out $(main_plugin:%.c=$(OUT)/obj/%.o),$(MAINS:%.c=$(OUT)/obj/%.o)) $(TEST_OBJ) $(PLUGIN_OBJ)

# One short line a step; V=1 shows the commands.
Q := $(if $(filter-out 0,$(V)),,@)
say = @$(if $(Q),printf '  %-4s %s\n' $(1) $(2),:)

.PHONY: all tests helpers check check-unit check-all check-run check-layers deps install clean help FORCE
.PHONY: check-kernel check-kernel-run compare demo install-conf install-man fuzz fuzzers check-newest check-newest-run
.DELETE_ON_ERROR:
.SECONDARY: $(OBJ)

all: $(PROG_BIN) $(LIB) $(PLUGIN) $(GENERATED)
tests: $(UNIT_BIN) $(HELPER_BIN) $(FUZZ_BIN) $(JUDGE_BIN)
helpers: $(HELPER_BIN)

# ---- rules -----------------------------------------------------------------------------------------------------

# Stamps whose text changes with the flags or the list of objects: what depends on them is then made again.
define stamp
	@mkdir -p $(@D)
	@printf '%s\n' $(1) | cmp -s - $@ || printf '%s\n' $(1) >$@
endef

$(OUT)/.flags: FORCE
	$(call stamp,'$(subst ','"'"',$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(ALL_LDFLAGS))')

$(OUT)/.objects: FORCE
	$(call stamp,$(LIB_OBJ) $(SHARED_OBJ))

# Objects that cannot be compiled: say what is missing and where it comes from.
$(if $(MISSING),$(OBJ),$(if $(TESTS_MISSING),$(TEST_OBJ))): FORCE
	@echo "liftd: this machine lacks: $(MISSING) $(TESTS_MISSING)" >&2
	@echo "liftd: 'make deps' installs the Debian 12 packages (scripts/install-deps --list names them)" >&2
	@exit 2

$(OUT)/obj/%.o: %.c $(OUT)/.flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(OUT)/pic/%.o: %.c $(OUT)/.flags
	@mkdir -p $(@D)
	$(call say,CC,'$< (pic)')
	$(Q)$(CC) $(ALL_CPPFLAGS) $(PLUGIN_CFLAGS) $(ALL_CFLAGS) -fPIC -fvisibility=hidden -MMD -MP -c -o $@ $<

# nbdkit itself has the functions that stay undefined.
$(OUT)/nbdkit-lift-plugin.so: $(main_plugin:%.c=$(OUT)/pic/%.o) $(PLUGIN_LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -shared -o $@ $^ $(PLUGIN_LIBS)

$(PLUGIN_LIB): $(PLUGIN_SRC:%.c=$(OUT)/pic/%.o)
$(LIB): $(LIB_OBJ)
$(SHARED): $(SHARED_OBJ)
# Made from nothing, so that no member of a deleted source stays behind.
$(LIB) $(SHARED) $(PLUGIN_LIB): $(OUT)/.objects
	@mkdir -p $(@D)
	@rm -f $@
	$(call say,AR,$@)
	$(Q)$(AR) rcs $@ $(filter %.o,$^)

define program
$(OUT)/$(1): $(main_$(1):%.c=$(OUT)/obj/%.o) $(LIB)
	$$(call say,LD,$$@)
	$$(Q)$$(CC) $$(ALL_CFLAGS) $$(ALL_LDFLAGS) -o $$@ $$^ $$(LIB_LIBS)
endef
$(foreach p,$(PROGRAMS) $(TOOLS),$(eval $(call program,$(p))))

$(OUT)/liftd.conf: $(OUT)/conf-sample
	$(call say,GEN,$@)
	$(Q)$< >$@

define manual
$(OUT)/man/$(basename $(notdir $(1))): $(1) $(OUT)/fill
	@mkdir -p $$(@D)
	$$(call say,MAN,$$@)
	$$(Q)$(OUT)/fill $$< >$$@.in
	$$(Q)scdoc <$$@.in >$$@
	@rm -f $$@.in
endef
$(foreach m,$(MANUALS),$(eval $(call manual,$(m))))

$(COMPLETIONS): $(OUT)/completion/%: server/completion/%.bash server/completion/common.sh $(OUT)/fill
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)$(OUT)/fill $< >$@

$(UNIT_BIN): $(OUT)/tests/%: $(OUT)/obj/tests/unit/%.o $(SHARED) $(LIB)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(LIB_LIBS) $(CHECK_LIBS)

$(HELPER_BIN): $(OUT)/tests/%: $(OUT)/obj/tests/helpers/%.o $(LIB)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(LIB_LIBS) $(HELPER_LIBS)

$(JUDGE_BIN): $(JUDGE_SRC:%.c=$(OUT)/obj/%.o)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(JUDGE_LIBS)

$(FUZZ_BIN): $(OUT)/tests/fuzz-%: $(OUT)/obj/tests/fuzz/%.o $(FUZZ_COMMON:%.c=$(OUT)/obj/%.o) $(SHARED) $(LIB)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(LIB_LIBS) -lm

# libFuzzer has the main function. Only for clang, with its own objects: see the target fuzz.
$(FUZZERS): $(OUT)/fuzz-%: $(OUT)/obj/tests/fuzz/%.o $(OUT)/obj/tests/fuzz/check.o $(SHARED) $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LIB_LIBS)

-include $(OBJ:.o=.d)

# ---- tests -----------------------------------------------------------------------------------------------------

# The packages first, then make again: this make has looked for the libraries before they were installed.
check:
	@scripts/install-deps
	@+$(MAKE) --no-print-directory check-run

check-all:
	@scripts/install-deps
	@+FULL=1 $(MAKE) --no-print-directory check-run

check-run: all tests
	@scripts/check-layers $(OUT)
	@BUILD='$(abspath $(OUT))' TESTS='$(TESTS)' tests/run

check-unit: $(UNIT_BIN)
	@BUILD='$(abspath $(OUT))' TESTS='$(TESTS)' tests/run --unit

# Virtual machines; where there can be none it says so and is content, but not in CI (tests/vm/vm).
check-kernel:
	@scripts/install-deps || :
	@+$(MAKE) --no-print-directory check-kernel-run

check-kernel-run: all helpers
	@BUILD='$(abspath $(OUT))' TESTS='$(TESTS)' tests/vm/vm $(KERNELS) || [ $$? -eq 77 ]

compare: all $(JUDGE_BIN)
	@BUILD='$(abspath $(OUT))' tests/conformance/compare

# TARGET=NAME: one of them. What they find worth keeping goes into tests/fuzz/corpus.
fuzz:
	@scripts/install-deps
	@+$(MAKE) --no-print-directory fuzzers CC=clang BUILD='$(BUILD)/fuzz' SAN=address,undefined \
		CFLAGS='-O2 -g -fsanitize=fuzzer-no-link'
	@BUILD='$(abspath $(BUILD))/fuzz/asan' TIME='$(TIME)' tests/fuzz/run $(TARGET)

fuzzers: $(FUZZERS)

# The clients of Debian 13, in a folder of their own that stays (NEWEST=DIR: that one); skipped as check-kernel is.
NEWEST ?= $(BUILD)/newest

check-newest:
	@scripts/install-deps || :
	@+$(MAKE) --no-print-directory check-newest-run

check-newest-run: all helpers
	@BUILD='$(abspath $(OUT))' NEWEST='$(abspath $(NEWEST))' TESTS='$(TESTS)' tests/newest/newest || [ $$? -eq 77 ]

check-layers: $(LIB)
	@scripts/check-layers $(OUT)

deps:
	@scripts/install-deps

# The packages first, as for check; it can do without most of them.
demo:
	@scripts/install-deps || :
	@+$(MAKE) --no-print-directory all
	@BUILD='$(abspath $(OUT))' scripts/demo

# ---- the rest --------------------------------------------------------------------------------------------------

install: all install-conf
	@mkdir -p $(DESTDIR)$(PREFIX)/bin
	@set -e; for p in $(PROGRAMS); do \
		echo "install $(DESTDIR)$(PREFIX)/bin/$$p"; \
		install -m 755 $(OUT)/$$p $(DESTDIR)$(PREFIX)/bin/$$p; \
	done
	@install -m 644 $(OUT)/liftd.conf $(docs_dir)/liftd.conf
ifneq ($(PLUGIN),)
	@mkdir -p $(DESTDIR)$(PLUGIN_DIR)
	@echo "install $(DESTDIR)$(PLUGIN_DIR)/$(notdir $(PLUGIN))"
	@install -m 755 $(PLUGIN) $(DESTDIR)$(PLUGIN_DIR)/
ifneq ($(PLUGIN_DIR),$(NBDKIT_DIR))
	@echo "note: 'nbdkit lift' is looked for in $(NBDKIT_DIR) only: give nbdkit the path of the plugin,"
	@echo "note: or set PLUGIN_DIR"
endif
endif
	@+$(MAKE) --no-print-directory install-man

# Units, the user they need, and sample configurations: these are read by people, so they are documentation.
UNITS    := liftd.service liftd.socket liftd-unix.socket
unit_dir := $(DESTDIR)$(PREFIX)/lib/systemd/system
user_dir := $(DESTDIR)$(PREFIX)/lib/sysusers.d
docs_dir := $(DESTDIR)$(PREFIX)/share/doc/liftd

install-conf:
	@mkdir -p $(unit_dir) $(user_dir) $(docs_dir)/samples
	@set -e; for u in $(UNITS); do \
		echo "install $(unit_dir)/$$u"; \
		f=conf/systemd/$$u; [ -e $$f ] || f=$$f.in; \
		sed 's|@BINDIR@|$(PREFIX)/bin|' $$f >$(unit_dir)/$$u; \
		chmod 644 $(unit_dir)/$$u; \
	done
	@echo "install $(user_dir)/liftd.conf"
	@install -m 644 conf/systemd/liftd.sysusers $(user_dir)/liftd.conf
	@echo "install $(docs_dir)/samples"
	@install -m 644 conf/samples/*.conf $(docs_dir)/samples

man_dir        := $(DESTDIR)$(PREFIX)/share/man
completion_dir := $(DESTDIR)$(PREFIX)/share/bash-completion/completions

# From what `all` has made.
install-man:
	@set -e; for m in $(MAN_PAGES); do \
		d=$(man_dir)/man$${m##*.}; \
		mkdir -p $$d; \
		echo "install $$d/$${m##*/}"; \
		install -m 644 $$m $$d; \
	done
	@mkdir -p $(completion_dir)
	@echo "install $(completion_dir)"
	@install -m 644 $(COMPLETIONS) $(completion_dir)

clean:
	rm -rf $(OUT)

help:
	@echo 'make               build the programs into $$(BUILD)'
	@echo 'make demo          install missing packages, build, show what the schedulers do (1 minute)'
	@echo 'make check         install missing packages, build, check the layers, run all tests'
	@echo 'make check-unit    the unit tests alone'
	@echo 'make check-all     all tests over the full product of settings (long)'
	@echo 'make check-kernel  the clients of Linux 6.1 and 6.12 and of QEMU, in virtual machines'
	@echo 'make build/tests/conformance  judges an NBD server by the specification: --help'
	@echo 'make compare       judges liftd and the other servers, into tests/conformance/compare.md'
	@echo 'make fuzz          the fuzzers of tests/fuzz, one after the other, for TIME (30m) each; TARGET=NAME: only this one'
	@echo 'make check-newest  the clients of Debian 13, in a folder that debootstrap makes (needs root)'
	@echo 'make check-layers  which folder includes what, which symbols sched/ uses'
	@echo 'make deps          install the Debian 12 packages that are missing'
	@echo 'make install       programs, manuals, completions, units and samples, into $$(DESTDIR)$$(PREFIX), and the'
	@echo '                   plugin to where nbdkit looks for it (PLUGIN_DIR)'
	@echo 'make clean         remove $$(BUILD)'
	@echo
	@echo 'BUILD=DIR          where everything is built (build)'
	@echo 'SAN=LIST           sanitizers: address,undefined (in $$(BUILD)/asan) or thread (in $$(BUILD)/tsan)'
	@echo 'V=1                show the commands'
	@echo 'WERROR=1           warnings are errors'
	@echo 'TESTS="NAME ..."   only these tests: test_tunable, or NAME of tests/NAME.sh'
	@echo 'KERNELS="6.1 6.12" only these, with check-kernel'
	@echo 'NEWEST=DIR         where check-newest has these clients ($$(BUILD)/newest)'
	@echo 'SRC_DIRS=sched     only this layer, with TESTS and check-unit'
	@echo 'CC, CFLAGS, CPPFLAGS, LDFLAGS, PREFIX (/usr/local), DESTDIR as usual'
