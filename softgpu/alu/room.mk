# Row arithmetic of the software GPU.
#
# $(call softgpu_clone_objects,a.c b.c) gives the objects of files that are compiled once for each level of the
# processor (softgpu/alu/clones.h). -O3 even under the sanitizers would take minutes: there OPTIMISE stays.
# No exception flag of the FP unit is ever read, and errno not either; values are as without these options.
SOFTGPU_CLONE_LEVELS := base $(if $(filter x86_64%,$(shell $(CC) -dumpmachine)),v3 v4)
softgpu_clone_objects = $(foreach level,$(SOFTGPU_CLONE_LEVELS),$(patsubst %.c,$(BUILD)/%.$(level).o,$(1)))
SOFTGPU_CLONE_CFLAGS := $(if $(CHECKED),,-O3) -fno-trapping-math -fno-math-errno \
                        $(if $(findstring clang,$(CC)),-Wno-pass-failed)
SOFTGPU_CLONE_base :=
SOFTGPU_CLONE_v3 := -march=x86-64-v3
SOFTGPU_CLONE_v4 := -march=x86-64-v4 -mprefer-vector-width=512

define softgpu_clone_rule
$$(BUILD)/%.$(1).o: %.c
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) $$(SOFTGPU_CLONE_CFLAGS) -DSG_CLONE_LEVEL=$(1) $$(SOFTGPU_CLONE_$(1)) \
	    $$(CFLAGS_$$(subst /,_,$$*)) -MMD -MP -c $$< -o $$@
endef
$(foreach level,$(SOFTGPU_CLONE_LEVELS),$(eval $(call softgpu_clone_rule,$(level))))

# Users of these objects link with $(SOFTGPU_ALU_LIBS).
SOFTGPU_ALU_OBJECTS := $(call objects,$(addprefix softgpu/alu/,clones.c decode.c decode_integer.c decode_float.c \
                       decode_compare.c decode_convert.c decode_video.c decode_words.c)) \
                       $(call softgpu_clone_objects,$(addprefix softgpu/alu/,integer.c bits.c float.c double.c half.c \
                       approx.c compare.c video.c convert_int.c convert_to_int.c convert_float.c))
SOFTGPU_ALU_LIBS := -lm
.PHONY: softgpu-alu
softgpu-alu: $(SOFTGPU_ALU_OBJECTS)
