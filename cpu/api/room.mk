# What is generated from the description of CUDA: $(BUILD)/generated/api/<file>, by cpu/api/generate.py <file>.
API_SOURCES := $(wildcard cpu/api/*.py cpu/api/*.api)

$(BUILD)/generated/api/%: $(API_SOURCES)
	@mkdir -p $(@D)
	cpu/api/generate.py $* > $@.new && mv $@.new $@ || { rm -f $@.new; exit 1; }
