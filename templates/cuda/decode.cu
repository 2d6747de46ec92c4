{{! decode.cu - one linear of decode, by what its weights are. }}
{{#device_halves}}
{{> cuda/linear_mma.cu}}
{{/device_halves}}
{{^device_halves}}
{{> cuda/linear_fma.cu}}
{{/device_halves}}
